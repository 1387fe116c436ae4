#version 3.7; global_settings { assumed_gamma 1 }
camera { location <0,2,-4> look_at 0 } light_source { <5,8,-5> rgb 1 }
plane { y, -1 pigment { checker rgb 1 rgb 0.2 } finish { reflection 0.3 } }
isosurface { function { x*x + y*y*2 + z*z - 1 + sin(x*9)*0.1 } contained_by { box { -1.5, 1.5 } } max_gradient 8 pigment { bozo scale 0.3 } }
